import type { CatalogueName } from '../policy/tool-names.ts'
import { fileRead } from './file-read.ts'
import { mailSend } from './mail-send.ts'
import { memoryGet } from './memory-get.ts'
import { memorySet } from './memory-set.ts'
import type { ToolDeclaration } from './tool.ts'

/** Every tool the service knows, by name (contract section 9, "Catalogue"). */
export const catalog = {
  file_read: fileRead,
  memory_get: memoryGet,
  memory_set: memorySet,
  mail_send: mailSend,
} as const satisfies { readonly [Name in CatalogueName]?: ToolDeclaration<Name> }

export type ToolName = keyof typeof catalog

/** The declaration of a tool, or undefined for a name the catalogue does not have (`constructor` included). */
export function getTool(name: string): ToolDeclaration | undefined {
  return byName.get(name)
}

const byName: ReadonlyMap<string, ToolDeclaration> = new Map(Object.entries(catalog))
