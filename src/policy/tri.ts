/**
 * The answer to a question about a call that may have unknown values. `no` and `yes` are true for all possible values.
 * With `maybe`, the unknown values decide.
 */
export type Tri = 0 | 1 | 2

export const no = 0
export const maybe = 1
export const yes = 2

export function tri(value: boolean): Tri {
  return value ? yes : no
}

/** Whether both are true. */
export function least(a: Tri, b: Tri): Tri {
  return a < b ? a : b
}

export function not(value: Tri): Tri {
  return value === yes ? no : value === no ? yes : maybe
}
