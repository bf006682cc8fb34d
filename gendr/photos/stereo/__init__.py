"""Multi-view stereo by PatchMatch: a plane at each pixel, whoever says where it may lie."""
