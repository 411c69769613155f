"""Scripts that run in the environments of other systems, so they import nothing of this project at their start."""
