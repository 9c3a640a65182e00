"""What a node shows about itself: pure views of its state, and the HTTP API over them."""
