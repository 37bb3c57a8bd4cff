"""What is asked of whom, at which price: queries of cells of a matrix of models × samples, what
answers them, costs, and estimates.
"""
