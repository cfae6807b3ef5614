"""What commands show of a model: tables, facts as JSON, pages."""
