"""What is done with learners and streams: runs, studies, labelling."""

from nevis_stream import former_names

if __name__ == "experiments":  # imported from a checkout under its former name
    former_names.adopt(__name__)
