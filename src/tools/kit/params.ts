import type { z } from 'zod'
import type { catalog, ToolName } from '../index.ts'
import type { AudienceReader, Executor, Finder, StateReader } from './executor.ts'

/** A tool's parameters after its schema has parsed them. */
export type ToolParams<Name extends ToolName> = z.output<(typeof catalog)[Name]['params']>

/** The body of a tool. It gets the parsed parameters, and returns the output that the tool's declaration describes. */
export type ToolBody<Name extends ToolName> = Executor<
  ToolParams<Name>,
  z.output<(typeof catalog)[Name]['output']>
>

/** Looks for a call of this tool, or sends the call again with its key. */
export type FinderOf<Name extends ToolName> = Finder<
  ToolParams<Name>,
  z.output<(typeof catalog)[Name]['output']>
>

/** Reads the thing that a call of this tool changes. */
export type StateReaderOf<Name extends ToolName> = StateReader<ToolParams<Name>>

/** Reads who can read the place that a call of this tool writes to. */
export type AudienceReaderOf<Name extends ToolName> = AudienceReader<ToolParams<Name>>
