"""The laboratory: simulator, planner, calibration and analyzer. It uses the file system; the file
system never uses it."""
