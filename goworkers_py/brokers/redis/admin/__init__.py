"""Jobs in their places, as people list and change them."""
