"""The page: the one room that knows Gradio."""
