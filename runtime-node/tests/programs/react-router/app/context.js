import { createContext } from "react-router";

export const cloudflare = createContext();
