"""What forbids an edit: each rule gives the file and line of what it finds, "" for nothing."""
