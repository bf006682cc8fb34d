"""Files of glTF 2.0 (.glb, .gltf): what each feature becomes is told in docs/formats.md."""
