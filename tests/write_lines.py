"""Programs that write, by line and by the kind of write: data of tests/test_write_semantics.py.

The lines work on x and y, of shape (3, 4); ``np`` is NumPy or functx.numpy, ``N`` NumPy itself.
"""

INDEXED = """\
x[...] = y
x[()] = 3
x[1:] = y[:-1]
x[1:] += x[:-1]
x[:, ::-1] = x
x[::-1] += x
x[[0, 1]] = x[[1, 0]]
x[[0, 0, 2]] = y
x[[0, 0, 2], 1] = y[:,0]
x[[0, 0]] += 1
x[x > 4] = 0
x[x > 4] += 1
x[x > 4] = x[x > 4] * 2
x[~(x>4)] = -1
x[x[:,0] > 3, 0] = 5
x[x[:,0] > 3] = y[0]
x[N.array([True, False, True])] = y[:2]
x[N.array([True, False, True]), 1:3] = 7
x[[True, False, True]] *= 2
x[0], x[1] = x[1].copy(), x[0].copy()
x[0], x[1] = x[1], x[0]
x[:, :3] @= N.ones((3, 3))
x.T[...] += y.T
x.T[0] = 9
for row in x: row += 1
for row in x: row[0] = row.sum()
for i, row in enumerate(x): row[...] = y[i] * 2
for row in x.T: row *= row[0]
x[5] = 1
x[0, 5] = 1
x[:, :3] = y
x[0] = [1, 2, 3]
x['a'] = 1
x[1.0] = 1
x[0] = 1j
x[0] = 'a'
x[0, 0] = [1, 2]
x[0, 0] = [1]
x[0, 0] = y[:1, 0]
x[0, 0] = y[0, :2]
x[0] = None
x[None] = y
x[..., None] = y[..., None]
x[0, ...] = y[0]
x[N.ix_([0, 2], [1, 3])] = 5
x[N.ix_([0, 2], [1, 3])] += y[:2, :2]
x[:, [0, 0, 1]] = y[:, :3]
x[1][2] = 5
x[1:][:, 1:][0] = y[0, 1:]
x[1:, 1:] *= x[:-1, :-1]
for p in np.array_split(x, 2, axis=1): p *= 2
v = x.view('i8'); x[0] = 1.5; return v
x[:] = [[1, 2, 3, 4]]*3
x[:2] = [y[0], y[1]]
x[N.newaxis, 1] = 2
x[-1, -1] = y[-1, -1]
x[1:1] = 5
x[1:1] = N.ones((0, 4))
x[1:1] = N.ones((2, 4))
x[::2, ::2] = x[::-2, ::-2]
x[[-1]] = 7
x[[2, 1, 0]] = x
x[[]] = 3
x[[], 0] = []
x[N.zeros((0,), int)] = 5
x[N.array(1)] = 5
x[N.int64(1), N.array([0, 2])] = 5
x[1, :][[0, 0]] = 5
x[(0, 1), (1, 2)] = 3
x[True] = 5
x[False] = 5
x[True, 0] = 5
x[x[:,0] > 3, 1:3] = [7, 8]
x[x[:,0] > 3, ..., 1] = 5
x[x[:,0] > 3] = y[:1]
x[0, x[0] > 1] = 9
x[-1, x[0] > 1] *= 3
x[:, x[0] > 1] = 9
x[..., x[0] > 1] = 9
x[::2, x[0] > 1] = 9
x[x[:,0] > 3, 0] += 1
x[x[:,0] > 3, 1:] *= x[x[:,0] > 3, 1:]
x[None, x > 3] = 2
x[x > 3, None] = 2
x[x > 3] = y
x[x > 100] = 3
x[x != x] = 0
x[x > 4] = 1j
x[x > 100] = 1j
x[x > 4] = '2.5'
x[x > 4] = [1j]
x[x > 4] = N.array(1j)
x[x.sum() > 4] = 1; y[y.sum() > 1e6] = 1
x[x[0, 0] > 0] *= y; return x[x[0, 0] > 1].sum(), y[y[0, 0] > 0].max(0)
x[x[0, 0] > 0] = [y]
x[x[0, 0] > 0] = y[:, :2]
z = x[0, 0, ...]; z[z > 0] = 5; z[z > 9] = 1j
z = x[0, 0, ...]; z[z > 0] += 1; z[z > 0] = [3]; return z
return x[x[:,0] > 3, 0].sum(), x[0, x[0] > 1].max()
x.T[x.T > 3] += 1
x[0] = '2.5'
y[[1, 1, 0]] = x; x[[0, 0]] = y[[1, 1]]
"""

AUGMENTED = """\
x += y; return x
x -= 1; x *= y; x /= 2
x **= 2
x //= 0.7
x %= 1.5
x **= y
x @= N.eye(4)
x <<= 1
x &= 1
x += 1j
x += N.float32(1)
x *= True
x += [1, 2, 3, 4]
x += [[1, 2, 3]]
x **= -1
"""

FLAT = """\
x.flat[:] = y.flat
x.flat[...] = 5
x.flat[3] = 7
x.flat[3:7] = [1, 2]
x.flat[[0, 5, 5]] = [1, 2, 3]
x.flat[-1] += 2
x.flat = y
x.flat = 3
x.flat = [1, 2, 3]
x.flat[x.flat[:] > 4] = 0
x.flat[N.arange(12) > 4] = 1
x.flat[12] = 1
x.flat[0:2] = []
x.flat[0] = [1, 2]
return [v*2 for v in x.flat], len(x.flat)
return x.flat[3], x.flat[2:7:2], x.flat[[1, 2]], x.flat[...], x.flat.copy(), x.flat[()]
return x.flat[-1], x.flat[N.arange(12) % 3 == 0]
return x.flat == 4
return x.flat.index, x.flat.base is x, x.flat.coords
it = x.flat; a = next(it); b = next(it); return a, b, it.index
x.T.flat[2:4] = 9
x.T.flat[[1, 1]] = [3, 4]
"""

METHODS = """\
x.fill(2)
x.fill(y[0, 0])
x[1:].fill(y[0])
x.sort()
x.sort(axis=0)
x[::-1].sort(axis=0, kind='stable')
x.T.sort()
x.sort(axis=None)
x.sort(axis=7)
x.partition(2)
x.partition(1, axis=0)
x.put([0, 5], [7, 8])
np.put(x, [0, 5, -1], [7, 8])
np.put(x, [0, 50], [7, 8], mode='wrap')
np.put(x, [0, 50, -3], [7, 8, 9], mode='clip')
np.put(x, [0, 50], [7, 8])
np.put(x.T, [1, 2], [7, 8])
np.put(x[1:, ::2], [1, 2, 2], [7, 8, 9])
np.put(x, [], [])
np.put(x, 2, 5)
np.place(x, x > 3, [1, 2, 3])
np.place(x, x > 3, [])
np.place(x.T, x.T > 3, y)
np.putmask(x, x > 3, [1, 2, 3])
np.putmask(x, x > 3, y)
np.putmask(x[::2], x[::2] > 3, y[:2])
np.putmask(x, x[0] > 3, y)
np.fill_diagonal(x, 5)
np.fill_diagonal(x, [1, 2])
np.fill_diagonal(x.T, 5, wrap=True)
np.fill_diagonal(x.T, 5)
np.fill_diagonal(x[0], 5)
np.fill_diagonal(x, y)
np.copyto(x, y)
np.copyto(x, y, where=y > 3)
np.copyto(x, y[:, :3])
np.copyto(x[1:], x[:-1])
np.copyto(x, y, where=[1.0, 0, 2, 0])
np.copyto(x, y, where=N.array([1.0, 0, 2, 0]))
np.copyto(x, y, where=[])
np.copyto(x[:, :0], y[:, :0], where=[])
np.copyto(x, 1j)
np.copyto(x, 1j, casting='unsafe')
np.put_along_axis(x, N.array([[1], [0], [2]]), 9., axis=1)
np.put_along_axis(x, N.array([1, 0, 2]), 9., axis=None)
np.put_along_axis(x, N.array([[1, 1, 0, 2]]), y[:1], axis=0)
x[0, 0] = np.nan; np.nan_to_num(x, copy=False)
np.nan_to_num(x.T, copy=False, nan=3)
return np.nan_to_num(x, copy=True, nan=1)
"""

OUT = """\
np.add(x, y, out=x)
np.add(x[1:], x[:-1], out=x[:-1])
np.add(x[1:], x[:-1], out=x[1:])
np.add(x.T, 1, out=x.T)
np.add(x, y, out=x, where=y > 3)
np.add(x, y, x)
np.add(x, y, out=x, where=N.ones(4)); x[0] = 0
np.add(x, y, out=x, where=[1.5, 0, 2, 0]); return x.sum(0, where=[0, 2.5, 1, 1]), x.mean(where=y > 0)
x.sum(where=N.arange(4))
return np.add(x, y, out=(x,)) is x
np.add(x[0], 1, out=x)
np.add(x, 1, out=x[0])
np.add(x, 1, out=x[:, :3])
np.multiply(x[0], y, out=x[::-1], where=[True, False, True, False])
np.add(x, 1j, out=x)
np.add(x, 1j, out=x, casting='unsafe')
np.add(x, y, out=x, dtype='f4')
np.add(x, y, out=x, dtype='f4', casting='no')
np.add(x, y, out=x, casting='equiv')
z = np.zeros_like(x, dtype='i8'); np.add(x, 1, out=z, casting='unsafe'); return z
z = np.zeros_like(x, dtype='f4'); np.add(x, 1, out=z); return z
np.modf(x, out=(x, y))
np.modf(x, x, y)
np.divmod(x, 0.7, out=(y, x))
np.divmod(x, 0.7, out=(None, x))
np.divmod(x[1:], 0.7, out=(x[:-1], y[:-1]), where=y[1:]>2)
np.frexp(x, out=(x, None))
np.sum(x, axis=0, out=x[0])
np.sum(x, axis=1, out=y[:,0])
np.sum(x, axis=0, out=x[0], keepdims=False, initial=3.0, where=x>2)
x.sum(0, out=y[1])
np.mean(x, axis=0, out=x[1])
x.mean(axis=0, out=y[0])
np.std(x, axis=0, out=x[1])
np.var(x, axis=0, out=x[1])
np.prod(x, axis=0, out=x[1])
np.max(x, axis=0, out=x[1])
x.min(axis=1, out=y[:,1])
np.any(x, axis=0, out=x[1])
np.cumsum(x, axis=0, out=x)
np.cumsum(x, axis=1, out=y)
x.cumprod(axis=0, out=y)
np.cumsum(x, out=y.reshape(-1))
np.add.accumulate(x, axis=0, out=x)
np.add.reduce(x, axis=0, out=x[0])
np.add.reduceat(x, [0, 2], axis=0, out=y[:2])
np.multiply.outer(x[0], y[:3, 0], out=y[:, :3].T)
np.multiply.outer(x[0], y[:3, 0], out=x.T)
np.matmul(x, y.T, out=x[:, :3])
np.matmul(x[:, :3], x[:, 1:], out=x[:, :3])
np.dot(x, y.T, out=x[:, :3])
np.dot(x, y.T, out=np.zeros_like(x[:, :3]))
np.einsum('ij, kj->ik', x, y, out=x[:, :3])
np.einsum('ij->ji', x, out=y.T)
np.clip(x, 2, 5, out=x)
x.clip(2, 5, out=y)
x.clip(min=2, out=x[:, :])
np.take(x, [1, 0], axis=0, out=y[:2])
np.take(x, [1, 0, 2], axis=0, out=x)
np.take(x, [1, 0], axis=0, out=x[1:])
np.take(x, [1, 5], axis=0, out=y[:2], mode='clip')
x.take([0, 1], out=y[0, :2])
return np.take(x[:0, :0], [0, -1], 1), np.take(x[:0], [7], 1)
np.choose([0, 1, 0, 1], [x[0], x[1]], out=x[0])
np.concatenate([x[:1], y[:2]], out=x)
np.concatenate([x, y], axis=0, out=np.zeros((6, 4)))
np.stack([x[0], y[0]], out=x[:2])
np.round(x * 1.3, 1, out=x)
x.round(out=y)
np.compress([True, False, True], x, axis=0, out=x[:2])
np.sqrt(x, out=x)
np.negative(x, out=x[::-1])
np.positive(x, out=y)
np.isnan(x, out=x)
np.exp(x, out=y, where=x > 4)
np.floor_divide(x, 2, out=x); x //= 2; x %= 2
z = x[0, 0, ...]; z[...] = 5; z.fill(7); np.add(z, 1, out=z); return z
"""

AT = """\
np.add.at(x, [0, 0, 2], 1)
np.add.at(x, ([0, 0, 2], [1, 1, 1]), y[:,0])
np.subtract.at(x, (slice(None), [0, 0]), y[:, :2])
np.multiply.at(x.T, [0, 0], 2)
np.maximum.at(x, [0, 1], y[:2])
np.divide.at(x, [0, 0], 2)
np.negative.at(x, [0, 0, 1])
np.power.at(x, [0, 0], 2)
np.add.at(x, x > 3, 1)
np.add.at(x, [5], 1)
np.add.at(x, [0], 1j)
np.add.at(x, (x[:,0] > 3, 0), 1)
"""

VIEWS = """\
x.reshape(-1)[5] = 77
x.ravel()[::2] = 0
x.ravel('K')[0] = 5
return divmod(x, 2)
x.real = y
x.real[0] += 1
x.imag = 0
x.real += y
x.real = 1j
x.real = [1j, 2, 3, 4]
x.real = '3'
x.real = 'a'
x.imag = y
x.imag = 2j
v = x[1:]; v += 1; v = v + 1; v += 1; return v
v = x[0, 0]; v += 1; return v
v = x[0, 0, ...]; v += 1; return v
v = x.diagonal(); v[0] = 1
v = np.diag(x); v += 1
np.einsum('ii->i', x[:3, :3])[...] = 5
np.einsum('ij->ji', x)[0] = 5
d = np.einsum('ii->i', x[:,:3]); d += d[::-1]; return d
b = np.broadcast_to(x[0], (2, 4)); b[0] = 1
np.split(x, 3)[1][...] = 4
np.hsplit(x, 2)[0] += 1
np.flip(x)[0] = 1
np.rot90(x)[0] = y[:, 0]
np.moveaxis(x, 0, 1)[0] = 1
np.squeeze(x[:1])[1] = 1
np.expand_dims(x, 1)[:, 0, 2] = 1
np.swapaxes(x, 0, 1)[1:] += 1
del x[0]
x.view('i8')[0] = 5
x.view('i8')[0] += 1
x.view('i8')[...] = y.view('i8')
x.view()[0] = 3
x.view('c16')
return x.view('u8') >> 3
v = x[1:].view('i8').view('f8'); v *= 2; return v
np.ascontiguousarray(x.T)
x = x.copy(); z = x.view('c16'); z *= 1j; return x, z
z = np.zeros(()); z[...] = x.sum(); z += 1; z[()] = z * 2; return z
z = np.zeros(()); z[...] = x; return z
z = x[0, 0, ...]; z[()] += 2; return z, z[()]
x.transpose(1, 0)[[0, 1], [0, 1]] = 5
x.swapaxes(0, 1)[x.T > 3] = 0
"""

# On v, the first column again and again: of what goes to one place the last one stays, wherever it stands among the repetitions.
REPEATED = """\
v[0, 0] = 2
v[:, :2] = 3
v[[0, 1], [0, 3]] = 5
v[:, [2, 1, 0]] = y[:, :3]
v[[1, 0, 1]] = y
v[N.arange(3) % 2 == 0] = -0.75
v[[[True, False, False, False], [False, True, True, False], [False] * 4]] = [3, 4, 5]
v[v > 3] = -0.5
v[v > 3] *= 2
v[v < 0] = 1
v[0][[1, 2]] = y[0, :2]
v[1, [0]] += 7
v.T[[1, 0], [0, 0]] = y[:2, :1]
v[..., None][[0], [1]] = 6
v.flat[0] = 9
v.flat[[0, -2]] = y[0, :2]
v[:, :3].flat[1::2] = [1, 2, 3]
v.flat = y
v.fill(2)
np.fill_diagonal(v, 8)
np.put(v, [0, 5], 7)
v[-1].put([1, 0], 0.5)
np.put(v, [0, 5, 6], y[0, :3])
v[1:, ::2].put([0, 3], [2, 9])
np.putmask(v, v > 3, [7, 8])
v[..., [0, -1, 0]] = y[:, :3]
w = np.broadcast_arrays(v, N.ones((2, 3, 4)))[0]; w[0] = y; w[1, :, 1] = 5; return w
np.place(v, N.arange(12).reshape(3, 4) % 5 == 0, [7, 8])
np.put_along_axis(v, N.array([[0], [1], [2]]), 4.0, 1)
np.copyto(v, y, where=N.arange(4) < 2)
np.add(v, 10, out=v, where=[True, False, False, False])
np.add.at(v, ([0, 1], [0, 1]), 1)
np.maximum.at(v, ([0, 1], [0, 1]), 3)
np.power.at(v, ([0, 1], [0, 1]), 2)
for row in v: row[0] *= 2
"""
REPEATED = "".join(f"v = np.broadcast_arrays(x[:, :1], y)[0]; {line}; return v * 1\n" for line in REPEATED.splitlines())

DTYPES_KEPT = """\
np.copyto(x, y.astype('f4'), casting='no')
np.copyto(x, y.astype('f4'), casting='safe', where=[True, False, True, False])
x = x.astype(int); x += 1; x *= 2; x //= 3; x %= 3; x <<= 2; x |= 1; x ^= 3; x >>= 1; x **= 2; x -= True; return x
x = x.astype(int); x /= 2
x = x.astype(int); x += 1.5
x = x.astype('u1'); x += 300
x = x.astype('u1'); x += -1
x = x.astype('u1'); x -= 1; x *= 200; return x
x = x.astype('u1'); x[0] = 300
x = x.astype('u1'); x[0] = -1
x = x.astype('u1'); x[0] = 2.7; return x
x = x.astype('u1'); x.fill(300)
x = x.astype('u1'); x.fill(2.5); return x
x = x.astype(bool); x += 1
x = x.astype(bool); x += True; x *= False; return x
x = x.astype(bool); x -= True
x = x.astype(bool); x |= x[::-1]; x ^= True; return x
x = x.astype(bool); x[0] = 5; x[1] = 0.0; return x
x = x.astype('f4'); x += 1.0; x += N.float64(1); x *= y; return x
x = x.astype('f2'); x += 1e6; return x
x = x.astype('c8'); x += 1j; x.real = 3; x.imag += 1; x.imag[0] = x.real[1]; return x
x = x.astype('c16'); z = x.view('f8'); z[:, ::2] += 1; z *= 2; return x, z
x = x.astype('c16'); return x.view('f8')
x = x.astype('i4'); x.view('f4')[...] = 1.0; return x
x = x.astype('u1'); return x.view('i1'), x.view(bool)
x = x.astype('f2'); return x.view('i2'), x.view('u2')
x = x.astype('c8'); return x.view('i8'), x.view('f8')
x = x.astype(int); x **= -1
return np.array([1j, 2], float)
return np.array([300, 2], 'u1')
return np.asarray(['2.5', 3], 'f4'), np.array('3', int), np.asarray([[1, 2], [3, 4]], complex)
x = x.astype(int); x @= x.T @ x
x = x.astype(int); np.putmask(x, x > 3, y)
x = x.astype('f4'); np.putmask(x, x > 3, y)
x = x.astype('f4'); np.putmask(x, x > 3, y.astype('i8')[0])
x = x.astype(int); np.putmask(x, x > 3, y[0, 0, ...])
x = x.astype(int); np.putmask(x, x > 3, 2.5); return x
"""

TABLES = {
    "indexed": INDEXED,
    "augmented": AUGMENTED,
    "flat": FLAT,
    "methods": METHODS,
    "out": OUT,
    "at": AT,
    "views": VIEWS,
    "repeated": REPEATED,
    "dtypes": DTYPES_KEPT,
}
