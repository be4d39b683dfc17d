"""What measurements imply: graphical models on a junction tree, mixtures, pools of rows; estimation and sampling."""
