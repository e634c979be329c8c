"""Official metrics, their uncertainty, and models scored and compared by them."""
