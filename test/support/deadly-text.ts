/** A large value with this text ends every worker that loads dying-worker.ts and reads the value. */
export const deadlyText = 'a value that ends every worker'
