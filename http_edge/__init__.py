"""The edge: the HTTP API and the web page. It appends events and reads views; it computes nothing."""
