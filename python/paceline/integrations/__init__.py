"""Training loops of other projects as workers of a job. Import the one that you use."""
