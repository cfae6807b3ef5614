"""Reports about models: tables, facts as JSON, HTML pages."""
