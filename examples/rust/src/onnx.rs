//! ONNX Runtime by its C interface: a table of functions whose places never change.

use libloading::Library;
use std::error::Error;
use std::ffi::{CStr, CString};
use std::os::raw::{c_char, c_int, c_void};
use std::path::PathBuf;
use std::ptr::{null, null_mut};

const API_VERSION: u32 = 14;
const INT64: c_int = 7;

// Places in `struct OrtApi` of onnxruntime_c_api.h.
const GET_ERROR_MESSAGE: usize = 2;
const CREATE_ENV: usize = 3;
const CREATE_SESSION: usize = 7;
const RUN: usize = 9;
const CREATE_SESSION_OPTIONS: usize = 10;
const SET_INTRA_OP_NUM_THREADS: usize = 24;
const CREATE_TENSOR: usize = 49;
const GET_TENSOR_DATA: usize = 51;
const GET_ELEMENT_COUNT: usize = 64;
const GET_TENSOR_SHAPE: usize = 65;
const CREATE_CPU_MEMORY_INFO: usize = 69;
const RELEASE_STATUS: usize = 93;
const RELEASE_VALUE: usize = 96;
const RELEASE_SHAPE: usize = 99;

type Handle = *mut c_void;
type Status = *mut c_void;

#[repr(C)]
struct Base {
    get_api: unsafe extern "C" fn(u32) -> *const Handle,
    get_version: unsafe extern "C" fn() -> *const c_char,
}

/// A function of the table, by its place in `struct OrtApi`.
macro_rules! function {
    ($api:expr, $place:expr, fn($($argument:ty),*) $(-> $result:ty)?) => {
        std::mem::transmute::<Handle, unsafe extern "C" fn($($argument),*) $(-> $result)?>(*$api.add($place))
    };
}

pub struct Session {
    api: *const Handle,
    session: Handle,
    memory: Handle,
    _library: Library,
}

impl Session {
    pub fn open(library: &str, model: PathBuf) -> Result<Session, Box<dyn Error>> {
        let name = CString::new("student")?;
        let path = CString::new(model.to_str().ok_or("the path is not UTF-8")?)?;
        unsafe {
            let library = Library::new(library)?;
            let base = library.get::<unsafe extern "C" fn() -> *const Base>(b"OrtGetApiBase")?();
            let api = ((*base).get_api)(API_VERSION);
            if api.is_null() {
                return Err("ONNX Runtime is older than 1.14".into());
            }
            let (mut environment, mut options, mut session, mut memory) =
                (null_mut(), null_mut(), null_mut(), null_mut());
            let create_environment = function!(api, CREATE_ENV, fn(c_int, *const c_char, *mut Handle) -> Status);
            check(api, create_environment(3, name.as_ptr(), &mut environment))?;
            check(api, function!(api, CREATE_SESSION_OPTIONS, fn(*mut Handle) -> Status)(&mut options))?;
            check(api, function!(api, SET_INTRA_OP_NUM_THREADS, fn(Handle, c_int) -> Status)(options, 1))?; // one thread
            let create_session = function!(api, CREATE_SESSION, fn(Handle, *const c_char, Handle, *mut Handle) -> Status);
            check(api, create_session(environment, path.as_ptr(), options, &mut session))?;
            let create_memory = function!(api, CREATE_CPU_MEMORY_INFO, fn(c_int, c_int, *mut Handle) -> Status);
            check(api, create_memory(1, 0, &mut memory))?; // ordinary memory of the CPU
            Ok(Session { api, session, memory, _library: library })
        }
    }

    /// Runs one text: each input has its name and its values.
    pub fn run(&self, inputs: &mut [(&str, Vec<i64>)], output: &str) -> Result<Vec<f32>, Box<dyn Error>> {
        let api = self.api;
        let names: Vec<CString> =
            inputs.iter().map(|(name, _)| CString::new(*name)).collect::<Result<_, _>>()?;
        let name_pointers: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
        let output = CString::new(output)?;
        unsafe {
            let create = function!(
                api,
                CREATE_TENSOR,
                fn(Handle, *mut c_void, usize, *const i64, usize, c_int, *mut Handle) -> Status
            );
            let mut values: Vec<Handle> = Vec::new();
            for (_, numbers) in inputs.iter_mut() {
                let (shape, mut value) = ([1, numbers.len() as i64], null_mut());
                let data = numbers.as_mut_ptr().cast();
                check(
                    api,
                    create(self.memory, data, 8 * numbers.len(), shape.as_ptr(), 2, INT64, &mut value),
                )?;
                values.push(value);
            }
            type Run = unsafe extern "C" fn(
                Handle,
                *const c_void,
                *const *const c_char,
                *const Handle,
                usize,
                *const *const c_char,
                usize,
                *mut Handle,
            ) -> Status;
            let run = std::mem::transmute::<Handle, Run>(*api.add(RUN));
            let mut made: Handle = null_mut();
            check(
                api,
                run(
                    self.session,
                    null(),
                    name_pointers.as_ptr(),
                    values.as_ptr(),
                    values.len(),
                    &output.as_ptr(),
                    1,
                    &mut made,
                ),
            )?;
            let (mut data, mut info, mut count): (*mut f32, Handle, usize) = (null_mut(), null_mut(), 0);
            check(api, function!(api, GET_TENSOR_DATA, fn(Handle, *mut *mut f32) -> Status)(made, &mut data))?;
            check(api, function!(api, GET_TENSOR_SHAPE, fn(Handle, *mut Handle) -> Status)(made, &mut info))?;
            check(api, function!(api, GET_ELEMENT_COUNT, fn(Handle, *mut usize) -> Status)(info, &mut count))?;
            let logits = std::slice::from_raw_parts(data, count).to_vec();
            function!(api, RELEASE_SHAPE, fn(Handle))(info);
            let release = function!(api, RELEASE_VALUE, fn(Handle));
            release(made);
            for value in values {
                release(value);
            }
            Ok(logits)
        }
    }
}

unsafe fn check(api: *const Handle, status: Status) -> Result<(), Box<dyn Error>> {
    if status.is_null() {
        return Ok(());
    }
    let message = function!(api, GET_ERROR_MESSAGE, fn(Status) -> *const c_char)(status);
    let text = CStr::from_ptr(message).to_string_lossy().into_owned();
    function!(api, RELEASE_STATUS, fn(Status))(status);
    Err(text.into())
}
