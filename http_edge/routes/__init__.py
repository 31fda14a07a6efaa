"""Routes by area. A route reads a request, appends or reads, and answers."""
