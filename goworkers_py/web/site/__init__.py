"""The WSGI application around the views: rights, links, templates, snapshots."""
