/** Three-valued truth. `no` and `yes` are certain for all unknown values; `maybe` depends on them. */
export type Tri = 0 | 1 | 2

export const no = 0
export const maybe = 1
export const yes = 2

export function tri(value: boolean): Tri {
  return value ? yes : no
}
