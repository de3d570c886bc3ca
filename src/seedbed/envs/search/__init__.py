"""Search-QA: answer a question with the help of a retriever. Seven question sets, exact match on the last answer."""
