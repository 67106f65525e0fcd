import { dates } from './dates.ts'
import { formats } from './formats.ts'
import { lists } from './lists.ts'
import { numbers } from './numbers.ts'
import type { Shape } from './shape.ts'
import { texts } from './texts.ts'

export type { Shape } from './shape.ts'

/** All functions of the language, by name. */
export const shapes: Readonly<Record<string, Shape>> = {
  ...texts,
  ...numbers,
  ...lists,
  ...dates,
  ...formats,
}
