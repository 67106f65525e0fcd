/** About a call that may have unknown values: `no` and `yes` hold for all of them, `maybe` for some. */
export type Tri = 0 | 1 | 2

export const no = 0
export const maybe = 1
export const yes = 2

export function tri(value: boolean): Tri {
  return value ? yes : no
}

export function least(a: Tri, b: Tri): Tri {
  return a < b ? a : b
}

export function not(value: Tri): Tri {
  return value === yes ? no : value === no ? yes : maybe
}
