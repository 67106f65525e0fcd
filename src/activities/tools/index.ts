import type { ToolName } from '../../catalog/index.ts'
import type { Executor } from './executor.ts'
import { readFileTool } from './file-read.ts'
import { sendMail } from './mail-send.ts'
import { getMemory } from './memory-get.ts'
import { setMemory } from './memory-set.ts'
import type { ToolParams } from './params.ts'

/** Bodies by tool name. A tool of the catalogue that is missing here fails with `tool_not_available`. */
export const executors = {
  file_read: readFileTool,
  memory_get: getMemory,
  memory_set: setMemory,
  mail_send: sendMail,
} satisfies { [Name in ToolName]?: Executor<ToolParams<Name>> }
