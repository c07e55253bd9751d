"""Atomic finish: the pushes of a job happen in the step that ends it.

`held_pushes`: the pushes that a job holds back until it has ended well.
`push`: publishes the pushes that `atomic` has held back.
`run`: pushes that are held back until the job that makes them has ended well.
"""
