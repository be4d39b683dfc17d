"""Linear and logistic regression from what a release measured, and from its model where it did not."""
