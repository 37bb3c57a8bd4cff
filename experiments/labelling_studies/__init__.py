"""Studies of label-efficient testing: how few labels give a model's accuracy, and whether intervals
hold."""
