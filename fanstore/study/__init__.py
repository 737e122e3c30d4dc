"""The laboratory: simulator, planner, calibration and analyzer. It uses the file system,
which never uses it."""
