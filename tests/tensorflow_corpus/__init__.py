"""Models of TensorFlow and Keras with known defects, each beside its repaired twin.

`pairs` says what a pair is; the other modules hold the pairs, by what the models do. `build` writes the files with TensorFlow
and Keras themselves, and runs each model at the point that its pair names. `programs` are models that are checked live.
"""
