"""What is left of a failure: the values that show it, made few, and a script that gives them to the program again."""
