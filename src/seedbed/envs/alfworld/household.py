"""What do generated households look like? Tables of rooms, of where things usually are, and of what fits where.

Ours, in the spirit of the published games: their class names and rough habits of their scenes, in fewer receptacles.
"""

from __future__ import annotations

#: Receptacles of a room, each with the most there can be; ``!`` marks what every such room has.
ROOMS: dict[str, str] = {
    "kitchen": "countertop!2 fridge!1 microwave!1 sinkbasin!1 cabinet3 drawer3 coffeemachine1 diningtable1 garbagecan1"
    " shelf2 sidetable1 stoveburner2 toaster1",
    "bedroom": "bed!1 drawer!3 desk2 dresser1 garbagecan1 shelf3 sidetable2 armchair1 safe1 laundryhamper1",
    "bathroom": "sinkbasin!1 toilet!1 cabinet!3 bathtubbasin1 countertop1 drawer2 garbagecan1 shelf2 cart1"
    " toiletpaperhanger1 handtowelholder1",
    "livingroom": "sofa!1 coffeetable!1 armchair2 cabinet1 diningtable1 drawer3 dresser1 garbagecan1 ottoman1 safe1"
    " shelf2 sidetable2 tvstand1",
}

OPENABLE = frozenset("cabinet drawer fridge microwave safe".split())

#: Thing -> receptacles it is usually in, with weights (none written: 1).
HABITS: dict[str, dict[str, str]] = {
    "kitchen": {
        "apple": "fridge3 countertop3 diningtable2 garbagecan sinkbasin sidetable",
        "bowl": "cabinet4 countertop2 fridge2 diningtable2 sinkbasin shelf",
        "bread": "countertop4 diningtable2 fridge",
        "butterknife": "countertop4 drawer2 diningtable2 sinkbasin",
        "cup": "cabinet3 countertop2 fridge2 diningtable sinkbasin shelf",
        "dishsponge": "countertop2 cabinet2 drawer2 sinkbasin garbagecan",
        "egg": "fridge3 countertop2 sinkbasin garbagecan diningtable",
        "fork": "countertop3 drawer3 diningtable2 sinkbasin",
        "glassbottle": "cabinet3 countertop2 diningtable garbagecan",
        "kettle": "stoveburner4 countertop2 cabinet2 diningtable",
        "knife": "countertop4 drawer2 diningtable2 sinkbasin",
        "ladle": "countertop3 cabinet2 drawer2 diningtable",
        "lettuce": "countertop3 fridge3 diningtable2 sinkbasin",
        "mug": "countertop3 coffeemachine3 cabinet3 fridge diningtable microwave sinkbasin shelf",
        "pan": "stoveburner5 countertop3 cabinet diningtable",
        "peppershaker": "cabinet3 countertop3 drawer2 diningtable2 shelf",
        "plate": "cabinet3 countertop3 diningtable2 fridge sinkbasin shelf",
        "pot": "stoveburner5 countertop2 cabinet fridge diningtable",
        "potato": "countertop3 fridge3 diningtable2 sinkbasin microwave garbagecan",
        "saltshaker": "cabinet3 countertop3 drawer2 diningtable2 shelf",
        "soapbottle": "countertop3 cabinet3 diningtable garbagecan",
        "spatula": "countertop4 drawer2 diningtable2 sinkbasin",
        "spoon": "countertop3 drawer3 diningtable2 sinkbasin",
        "tomato": "fridge3 countertop3 diningtable2 garbagecan sinkbasin",
        "winebottle": "countertop3 cabinet2 diningtable2 garbagecan shelf fridge",
    },
    "bedroom": {
        "alarmclock": "desk4 shelf2 sidetable2 dresser2",
        "book": "bed4 desk2 drawer shelf sidetable dresser",
        "bowl": "desk3 shelf2 dresser",
        "cd": "drawer3 desk3 dresser2 sidetable2 garbagecan shelf safe",
        "cellphone": "bed4 desk2 drawer2 dresser sidetable shelf",
        "creditcard": "drawer3 desk2 shelf2 sidetable2 dresser armchair",
        "keychain": "drawer3 desk2 shelf2 sidetable2 dresser2 safe",
        "laptop": "bed5 desk2 armchair dresser",
        "mug": "desk4 shelf2 sidetable dresser",
        "pen": "desk4 drawer3 shelf2 sidetable2 dresser2 garbagecan",
        "pencil": "desk4 drawer3 shelf2 sidetable2 dresser garbagecan",
        "pillow": "bed6 armchair",
        "statue": "shelf3 dresser2 desk",
        "tissuebox": "desk2 drawer shelf sidetable",
        "watch": "drawer2 shelf2 dresser2 safe",
    },
    "bathroom": {
        "candle": "countertop3 toilet3 cabinet2 drawer2 shelf",
        "cloth": "bathtubbasin3 cabinet3 countertop2 drawer2 sinkbasin shelf",
        "dishsponge": "countertop2 bathtubbasin2 cabinet sinkbasin drawer",
        "handtowel": "handtowelholder5 countertop toilet",
        "soapbar": "countertop3 toilet2 sinkbasin2 cabinet2 bathtubbasin2 drawer garbagecan shelf",
        "soapbottle": "countertop3 toilet3 cabinet3 shelf garbagecan drawer",
        "spraybottle": "countertop3 toilet3 cabinet2 garbagecan shelf",
        "tissuebox": "countertop2 shelf2 drawer cabinet",
        "toiletpaper": "toilet3 countertop3 toiletpaperhanger2 cabinet2 drawer garbagecan shelf",
    },
    "livingroom": {
        "book": "coffeetable3 sofa2 dresser2 armchair shelf",
        "box": "sofa2 coffeetable2 diningtable2 sidetable cabinet",
        "creditcard": "sofa3 coffeetable3 sidetable2 drawer2 dresser",
        "keychain": "coffeetable3 sidetable2 drawer2 sofa2 safe",
        "laptop": "sofa3 coffeetable3 diningtable2 sidetable armchair",
        "newspaper": "sofa3 coffeetable2 diningtable2 sidetable2 shelf armchair",
        "pillow": "sofa5 armchair2 ottoman",
        "plate": "diningtable3 coffeetable2 shelf",
        "remotecontrol": "coffeetable4 sofa3 sidetable2 dresser armchair drawer ottoman",
        "statue": "coffeetable3 shelf3 diningtable2 sidetable2 dresser",
        "tissuebox": "coffeetable3 sidetable2 diningtable tvstand shelf",
        "vase": "shelf3 coffeetable2 diningtable sidetable dresser safe",
        "watch": "coffeetable3 drawer3 sidetable2 dresser shelf",
    },
}

#: Receptacle -> further things that may be put there although they are not usually found there.
ROOM_FOR: dict[str, str] = {
    "armchair": "book box cellphone creditcard keychain laptop newspaper pillow remotecontrol",
    "bed": "book cellphone laptop pillow",
    "cabinet": "book box candle cup dishsponge handtowel kettle ladle pan pot soapbar toiletpaper vase",
    "cart": "candle cloth dishsponge handtowel soapbar soapbottle spraybottle tissuebox toiletpaper",
    "coffeetable": "newspaper pen pencil",
    "countertop": "creditcard handtowel keychain pen pencil statue vase",
    "desk": "remotecontrol watch",
    "diningtable": "cd creditcard keychain pen pencil watch",
    "drawer": "book candle dishsponge handtowel newspaper remotecontrol tissuebox",
    "dresser": "box cellphone mug newspaper plate remotecontrol tissuebox",
    "fridge": "glassbottle mug pan plate",
    "garbagecan": "bread candle cloth handtowel lettuce newspaper pencil tissuebox",
    "laundryhamper": "cloth",
    "microwave": "apple bowl bread cup egg glassbottle mug plate potato tomato",
    "ottoman": "book box cellphone creditcard keychain laptop newspaper pillow remotecontrol",
    "safe": "cd cellphone creditcard keychain statue vase watch",
    "shelf": "bowl box cd cellphone dishsponge glassbottle kettle pot soapbar",
    "sidetable": "apple bowl box bread cup egg fork knife laptop lettuce mug pan plate pot potato spoon tomato",
    "sofa": "cellphone keychain watch",
    "toilet": "cloth dishsponge",
}

CLEANABLE = frozenset(
    "apple bowl butterknife cloth cup dishsponge egg fork kettle knife ladle lettuce mug pan plate"
    " pot potato soapbar spatula spoon tomato".split()
)
HEATABLE = frozenset("apple bread cup egg mug plate potato tomato".split())
COOLABLE = frozenset("apple bowl bread cup egg lettuce mug pan plate pot potato tomato winebottle".split())
SLICEABLE = frozenset("apple bread egg lettuce potato tomato".split())
VESSELS = frozenset("bowl box cup mug pan plate pot".split())

LAMP = "desklamp"
LAMP_STANDS = frozenset("desk dresser shelf sidetable coffeetable".split())

#: Task type -> rooms (repeated for weight), the receptacle that treats the thing, which things qualify, and the two
#: ways to say it.
TASKS: dict[str, tuple[str, str | None, frozenset[str] | None, tuple[str, str]]] = {
    "pick": (
        "kitchen bedroom bathroom livingroom",
        None,
        None,
        ("put a {thing} in {target}.", "put some {thing} on {target}."),
    ),
    "look": (
        "bedroom bedroom bedroom livingroom",
        None,
        None,
        ("examine the {thing} with the {target}.", "look at {thing} under the {target}."),
    ),
    "clean": (
        "kitchen kitchen kitchen bathroom",
        "sinkbasin",
        CLEANABLE,
        ("clean some {thing} and put it in {target}.", "put a clean {thing} in {target}."),
    ),
    "heat": (
        "kitchen",
        "microwave",
        HEATABLE,
        ("heat some {thing} and put it in {target}.", "put a hot {thing} in {target}."),
    ),
    "cool": (
        "kitchen",
        "fridge",
        COOLABLE,
        ("cool some {thing} and put it in {target}.", "put a cool {thing} in {target}."),
    ),
    "two": (
        "kitchen bedroom bathroom livingroom",
        None,
        None,
        ("put two {thing} in {target}.", "find two {thing} and put them in {target}."),
    ),
}

HELP = """Available commands:
  look, inventory, help
  go to (receptacle), open (receptacle), close (receptacle)
  take (object) from (receptacle), move (object) to (receptacle)
  examine (receptacle or held object), use (lamp)
  heat, cool or clean (object) with (receptacle)
  slice (object) with (knife)
"""
