"""The parts of launch.watch: the files of a run, its state, and the screen."""
