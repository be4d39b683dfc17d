"""The census out of the box: schemas from the Bureau's dictionaries, and the tasks of folktables."""
