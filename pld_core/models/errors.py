"""What can be wrong with a model, said to a person."""


class ModelError(RuntimeError):
    """A model that cannot be used. The message is one sentence for whoever asked for it."""
