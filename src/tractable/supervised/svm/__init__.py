"""Support vector machines: duals, primals, several classes, numbers, calibration and bounds."""
