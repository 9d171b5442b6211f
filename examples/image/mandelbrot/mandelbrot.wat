;; Counts the iterations of z := z² + c until |z| > 2, for each pixel of a square image.
(module
  ;; 4 pages have 512 × 512 bytes.
  (memory (export "memory") 4)

  ;; Writes one byte for each pixel: its number of iterations, at most 255.
  (func (export "draw") (param $size i32) (param $x f64) (param $y f64) (param $width f64)
    (local $column i32) (local $row i32) (local $step f64)
    (local.set $step (f64.div (local.get $width) (f64.convert_i32_u (local.get $size))))
    (local.set $x (f64.sub (local.get $x) (f64.div (local.get $width) (f64.const 2))))
    (local.set $y (f64.sub (local.get $y) (f64.div (local.get $width) (f64.const 2))))
    (loop $rows
      (local.set $column (i32.const 0))
      (loop $columns
        (i32.store8
          (i32.add (i32.mul (local.get $row) (local.get $size)) (local.get $column))
          (call $iterations
            (f64.add (local.get $x)
              (f64.mul (f64.convert_i32_u (local.get $column)) (local.get $step)))
            (f64.add (local.get $y)
              (f64.mul (f64.convert_i32_u (local.get $row)) (local.get $step)))))
        (local.set $column (i32.add (local.get $column) (i32.const 1)))
        (br_if $columns (i32.lt_u (local.get $column) (local.get $size))))
      (local.set $row (i32.add (local.get $row) (i32.const 1)))
      (br_if $rows (i32.lt_u (local.get $row) (local.get $size)))))

  (func $iterations (param $cx f64) (param $cy f64) (result i32)
    (local $zx f64) (local $zy f64) (local $xx f64) (local $yy f64) (local $count i32)
    (loop $iterate
      (local.set $xx (f64.mul (local.get $zx) (local.get $zx)))
      (local.set $yy (f64.mul (local.get $zy) (local.get $zy)))
      (local.set $zy
        (f64.add (f64.mul (f64.mul (f64.const 2) (local.get $zx)) (local.get $zy))
          (local.get $cy)))
      (local.set $zx (f64.add (f64.sub (local.get $xx) (local.get $yy)) (local.get $cx)))
      (local.set $count (i32.add (local.get $count) (i32.const 1)))
      (br_if $iterate
        (i32.and
          (i32.lt_u (local.get $count) (i32.const 255))
          (f64.le (f64.add (local.get $xx) (local.get $yy)) (f64.const 4)))))
    (local.get $count)))
