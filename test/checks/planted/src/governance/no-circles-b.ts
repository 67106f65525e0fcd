import type { A } from './no-circles-a.ts'

export interface B {
  readonly a: A
}
