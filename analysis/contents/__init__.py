"""What a release folder holds, as frames for its reader, and whole tables like its rows."""
