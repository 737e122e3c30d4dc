"""The laboratory: simulator, calibration and analyzer. Uses the file system's modules;
these never use it."""
