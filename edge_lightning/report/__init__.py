"""From run records to a report: tables, pictures, one page. Numbers in it come from the records alone."""
