"""What is done with learners and streams: runs, studies, labelling."""

from nevis_stream import user_code

if __name__ == "experiments":  # imported from a checkout under its former name
    user_code.adopt(__name__)
