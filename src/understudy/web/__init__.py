"""A student in a browser: a page, and a folder that JavaScript can import."""
