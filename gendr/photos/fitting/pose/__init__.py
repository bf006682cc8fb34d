"""Finding where a camera stood, from masks of an object whose mesh is known."""
