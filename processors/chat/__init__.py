"""Chat: from a question to an answer whose every mark was checked."""
