"""The command `equistrata plan`, which predicts the accuracy of a release."""
