"""The application: from photographs to meshes."""
