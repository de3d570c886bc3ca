"""The three ways to work with seedbed, as steps that the software checks itself: understand, smoke-test, reproduce."""
