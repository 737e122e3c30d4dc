"""The laboratory: simulator, planner, calibration and analyzer. Uses the file system's modules;
these never use it."""
