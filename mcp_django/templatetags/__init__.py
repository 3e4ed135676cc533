"""Tags for the templates of the console and of pages that extend them. They import console, conf and core."""
