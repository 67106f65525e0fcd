import type { B } from './no-circles-b.ts'

export interface A {
  readonly b: B
}
