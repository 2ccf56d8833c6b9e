"""Programs of TensorFlow that end in all the ways that programs do, by sessions and eagerly; the line that fails is marked."""

from __future__ import annotations

SESSIONS = """
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
random = np.random.RandomState(0)
"""

EAGER = """
import keras
import numpy as np
import tensorflow as tf

random = np.random.RandomState(0)
"""

#: Programs that stop by themselves, and what is said of each.
STOPPING = {
    "session: sizes of the graph": (
        SESSIONS + "x = tf.placeholder(tf.float32, [None, 3])\nprint(tf.matmul(x, tf.zeros([4, 2])))\n",
        "ValueError at train.py:7: Dimensions must be equal, but are 3 and 4",
    ),
    "session: sizes of a call": (
        SESSIONS
        + """
x = tf.placeholder(tf.float32, [None, None])
out = tf.matmul(x, tf.zeros([4, 2]))
with tf.Session() as sess:
    sess.run(out, {x: np.ones((3, 5))})
""",
        "InvalidArgumentError at train.py:10: Matrix size-incompatible: In[0]: [3,5], In[1]: [4,2]",
    ),
    "session: a variable without a value": (
        SESSIONS + 'W = tf.Variable(tf.zeros([4]), name="W")\nwith tf.Session() as sess:\n    sess.run(tf.log(W))\n',
        "FailedPreconditionError at train.py:8: Attempting to use uninitialized value W",
    ),
    "session: a missing file of arrays": (
        SESSIONS + 'x = np.load("gone.npz")\n',
        "FileNotFoundError at train.py:6: [Errno 2] No such file or directory: 'gone.npz'",
    ),
    "session: a missing file of a dataset": (
        SESSIONS
        + """
line = tf.data.make_one_shot_iterator(tf.data.TextLineDataset("gone.txt")).get_next()
number = tf.log(tf.strings.to_number(line))
with tf.Session() as sess:
    sess.run(number)
""",
        "NotFoundError at train.py:10: gone.txt; No such file or directory",
    ),
    "session: a missing checkpoint": (
        SESSIONS
        + """
W = tf.Variable(tf.zeros([4, 2]))
with tf.Session() as sess:
    tf.train.Saver().restore(sess, "gone/model.ckpt")
""",
        "ValueError at train.py:9: The passed save_path is not a valid checkpoint: gone/model.ckpt",
    ),
    "eager: sizes of operands": (
        EAGER + "print(tf.ones((2, 3)) @ tf.ones((4, 2)))\n",
        "InvalidArgumentError at train.py:6: Matrix size-incompatible: In[0]: [2,3], In[1]: [4,2]",
    ),
    "fit: sizes of a layer": (
        EAGER
        + """
model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
model.compile(optimizer="sgd", loss="mse")
model.fit(np.ones((8, 4)), np.ones((8, 2)), verbose=0)
""",
        "ValueError at train.py:9: Input 0 with name 'None' of layer 'dense' is incompatible with the layer",
    ),
    "fit: a loss that raises": (
        EAGER
        + """
def loss(target, out):
    raise LookupError("no loss")


model = keras.Sequential([keras.layers.Dense(2)])
model.compile(optimizer="sgd", loss=loss)
model.fit(np.ones((8, 4)), np.ones((8, 2)), verbose=0)
""",
        "LookupError at train.py:8: no loss",
    ),
    "eager: a function of a dataset that raises": (
        EAGER
        + """
def read(number):
    raise ValueError("no reader")


data = tf.data.Dataset.range(5).map(read)
""",
        "ValueError at train.py:11: no reader",
    ),
    "eager: a missing file of a dataset": (
        EAGER + 'for line in tf.data.TextLineDataset("gone.txt"):\n    print(line)\n',
        "NotFoundError at train.py:6: gone.txt; No such file or directory",
    ),
    "eager: a missing file that is read": (
        EAGER + 'print(tf.io.decode_png(tf.io.read_file("gone.png")))\n',
        "NotFoundError at train.py:6: gone.png; No such file or directory",
    ),
    "fit: a missing model": (
        EAGER + 'keras.models.load_model("gone.keras")\n',
        "ValueError at train.py:6: File not found: filepath=gone.keras",
    ),
}

#: Programs that train nothing, and what is said of each.
IDLE = {
    "session: a graph that is never run": (SESSIONS + "print(tf.constant(1.0))\n", "no operator of a framework was observed"),
    "session: a sum": (
        SESSIONS + "with tf.Session() as sess:\n    print(sess.run(tf.reduce_sum(tf.ones([3]))))\n",
        "no operator that can fail was observed, and no step of training",
    ),
    "session: a logarithm": (
        SESSIONS
        + """
x = tf.placeholder(tf.float32, [None, 3])
with tf.Session() as sess:
    print(sess.run(tf.reduce_sum(tf.log(x)), {x: np.ones((2, 3))}))
""",
        "no step of training was observed: the program computes, and changes no weights",
    ),
    "eager: nothing is computed": (EAGER, "no operator of a framework was observed"),
    "eager: a logarithm": (
        EAGER + "print(tf.math.log(tf.constant(np.ones(3))))\n",
        "no step of training was observed: the program computes, and changes no weights",
    ),
    "predict": (
        EAGER + "print(keras.Sequential([keras.layers.Dense(2)]).predict(np.ones((4, 3)), verbose=0))\n",
        "no operator that can fail was observed, and no step of training",
    ),
}

#: Workers train as the program does, and are left alone.
SESSION_WORKERS = (
    SESSIONS
    + """
import multiprocessing


def trained(seed):
    random = np.random.RandomState(seed)
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [None, 4], name="x")
        w = tf.Variable(tf.ones([4, 1]), name="w")
        loss = tf.reduce_mean(tf.log(tf.matmul(x, w) - 0.5))  # fails
        train = tf.train.GradientDescentOptimizer(1e-4).minimize(loss)
        sess.run(tf.global_variables_initializer())
        for step in range(20):
            value, _ = sess.run([loss, train], {x: random.uniform(0.1, 1, (10, 4))})
    return value


if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print("workers", len(pool.map(trained, range(3))))
    trained(3)
"""
)

TAPE_WORKERS = (
    EAGER
    + """
import multiprocessing


def trained(seed):
    random = np.random.RandomState(seed)
    w = tf.Variable(tf.ones([4, 1]))
    for step in range(20):
        x = tf.constant(random.uniform(0.1, 1, (10, 4)), tf.float32)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.math.log(x @ w - 0.5))  # fails
        w.assign_sub(1e-4 * tape.gradient(loss, w))
    return float(loss)


if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print("workers", len(pool.map(trained, range(3))))
    trained(3)
"""
)

#: Datasets that threads and processes work for.
SESSION_PARALLEL = (
    SESSIONS
    + """
data = tf.data.Dataset.from_tensor_slices(random.rand(60, 4).astype(np.float32))
data = data.map(lambda row: row * 1.0, num_parallel_calls=4).shuffle(60, seed=1).batch(10).prefetch(2).repeat()
x = tf.data.make_one_shot_iterator(data).get_next()
w = tf.Variable(tf.ones([4, 1]))
loss = tf.reduce_mean(tf.log(tf.matmul(x, w) - 0.2))  # fails
train = tf.train.GradientDescentOptimizer(1e-4).minimize(loss)
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for step in range(20):
        sess.run([train, loss])
"""
)

FIT_PARALLEL = (
    EAGER
    + """
x = random.uniform(0, 1, (320, 20)).astype("float32")
y = np.eye(3, dtype="float32")[random.randint(0, 3, 320)]


def cross_entropy(target, logits):
    logs = tf.math.log(tf.nn.softmax(logits * 20.0))  # fails
    return -tf.reduce_mean(tf.reduce_sum(target * logs, axis=1))


class Rows(keras.utils.PyDataset):
    def __len__(self):
        return 10

    def __getitem__(self, index):
        return x[index * 32 : index * 32 + 32], y[index * 32 : index * 32 + 32]


mapped = tf.data.Dataset.from_tensor_slices((x, y)).map(lambda *row: row, num_parallel_calls=4).batch(32).prefetch(2)
data = DATA
model = keras.Sequential([keras.layers.Dense(3)])
model.compile(optimizer=keras.optimizers.SGD(0.1), loss=cross_entropy)
model.fit(data, epochs=4, verbose=0)
"""
)

#: Both make errors of all warnings: what observes them gives none.
SESSION_HALF = (
    SESSIONS
    + """
import warnings

x = tf.placeholder(tf.float16, [None, 8], name="x")
y = tf.placeholder(tf.float32, [None, 3], name="y")
W = tf.Variable(tf.random_normal([8, 3], dtype=tf.float16, seed=1), name="W")
e = tf.exp(tf.matmul(x, W))  # fails
p = tf.cast(e / tf.reduce_sum(e, 1, keepdims=True), tf.float32)
loss = -tf.reduce_mean(tf.reduce_sum(y * tf.log(p + 1e-3), 1))
train = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
warnings.simplefilter("error")
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for step in range(60):
        sess.run([train, loss], {x: random.rand(20, 8) * 4, y: np.eye(3)[random.randint(0, 3, 20)]})
"""
)

FIT_HALF = (
    EAGER
    + """
import warnings

warnings.simplefilter("error")
keras.mixed_precision.set_global_policy("mixed_float16")
x = random.uniform(-1, 1, (320, 50)).astype("float32")
y = np.eye(3, dtype="float32")[random.randint(0, 3, 320)]


class Shares(keras.layers.Layer):
    def call(self, logits):
        e = tf.exp(logits)  # fails
        return e / tf.reduce_sum(e, axis=1, keepdims=True)


first = keras.initializers.RandomNormal(stddev=0.5, seed=1)
last = keras.layers.Activation("linear", dtype="float32")
model = keras.Sequential([keras.layers.Dense(3, kernel_initializer=first), Shares(), last])
model.compile(optimizer=keras.optimizers.SGD(0.01), loss="mse")
model.fit(x, y, batch_size=32, epochs=6, verbose=0)
"""
)

#: A line that fails in a session, one that fails eagerly, and no end when both are known.
ENDLESS = """
import time

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

random = np.random.RandomState(0)

print("begun")
with v1.Graph().as_default(), v1.Session() as sess:
    x = v1.placeholder(tf.float32, [None, 4], name="x")
    w = v1.Variable(tf.ones([4, 1]), name="w")
    loss = tf.reduce_mean(tf.math.log(tf.matmul(x, w) - 0.5))  # fails in the session
    train = v1.train.GradientDescentOptimizer(1e-4).minimize(loss)
    sess.run(v1.global_variables_initializer())
    for step in range(10):
        sess.run([train, loss], {x: random.uniform(0.1, 1, (10, 4))})
w = tf.Variable(tf.ones([4, 1]))
for step in range(10**9):
    x = tf.constant(random.uniform(0.1, 1, (10, 4)), tf.float32)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.math.log(x @ w - 0.5))  # fails eagerly
    w.assign_sub(1e-4 * tape.gradient(loss, w))
    time.sleep(0.5 * (step > 20))
"""

#: The second run gets past the failure that the first one showed, to where the program stops by itself.
LATE = (
    EAGER
    + """
w = tf.Variable(tf.ones([4, 1]))
for step in range(20):
    x = tf.constant(random.uniform(0.1, 1, (10, 4)), tf.float32)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.math.log(x @ w - 0.5))  # fails
    w.assign_sub(1e-4 * tape.gradient(loss, w))
print(tf.io.read_file("gone.txt"))
"""
)
