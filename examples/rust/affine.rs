// SPDX-License-Identifier: Apache-2.0
// krafla from Rust: the C interface as an extern block, and its handles as values that free themselves.
use std::ffi::{c_char, c_void, CStr, CString};
use std::ptr;

#[repr(C)]
struct Input {
    data: *const c_void,
    size: usize,
}
#[repr(C)]
struct Output {
    data: *mut c_void,
    size: usize,
}

#[link(name = "krafla")]
extern "C" {
    fn krafla_version() -> *const c_char;
    fn krafla_status_message(status: *const c_void) -> *const c_char;
    fn krafla_status_free(status: *mut c_void);
    fn krafla_client_create(selector: *const c_char, options: *const c_void, client: *mut *mut c_void) -> *mut c_void;
    fn krafla_client_free(client: *mut c_void);
    fn krafla_session_load_bytes(
        client: *const c_void,
        bytes: *const c_void,
        size: usize,
        options: *const c_void,
        session: *mut *mut c_void,
    ) -> *mut c_void;
    fn krafla_session_free(session: *mut c_void);
    fn krafla_session_run(
        session: *mut c_void,
        inputs: *const Input,
        input_count: usize,
        outputs: *const Output,
        output_count: usize,
        options: *const c_void,
    ) -> *mut c_void;
}

fn check(status: *mut c_void) -> Result<(), String> {
    if status.is_null() {
        return Ok(());
    }
    unsafe {
        let message = CStr::from_ptr(krafla_status_message(status)).to_string_lossy().into_owned();
        krafla_status_free(status);
        Err(message)
    }
}

struct Client(*mut c_void);
impl Drop for Client {
    fn drop(&mut self) {
        unsafe { krafla_client_free(self.0) }
    }
}
impl Client {
    fn new(device: &str) -> Result<Client, String> {
        let selector = CString::new(device).map_err(|e| e.to_string())?;
        let mut out = ptr::null_mut();
        check(unsafe { krafla_client_create(selector.as_ptr(), ptr::null(), &mut out) })?;
        Ok(Client(out))
    }
}

struct Session(*mut c_void);
// Any thread may use a session.
unsafe impl Send for Session {}
unsafe impl Sync for Session {}
impl Drop for Session {
    fn drop(&mut self) {
        unsafe { krafla_session_free(self.0) }
    }
}
impl Session {
    fn load(client: &Client, program: &[u8]) -> Result<Session, String> {
        let mut out = ptr::null_mut();
        let bytes = program.as_ptr() as *const c_void;
        check(unsafe { krafla_session_load_bytes(client.0, bytes, program.len(), ptr::null(), &mut out) })?;
        Ok(Session(out))
    }
    fn run(&self, inputs: &[&[f32]], outputs: &mut [&mut [f32]]) -> Result<(), String> {
        let inputs: Vec<Input> =
            inputs.iter().map(|x| Input { data: x.as_ptr() as *const c_void, size: std::mem::size_of_val(*x) }).collect();
        let outputs: Vec<Output> = outputs
            .iter_mut()
            .map(|x| Output { size: std::mem::size_of_val(*x), data: x.as_mut_ptr() as *mut c_void })
            .collect();
        check(unsafe {
            krafla_session_run(self.0, inputs.as_ptr(), inputs.len(), outputs.as_ptr(), outputs.len(), ptr::null())
        })
    }
}

const PROGRAM: &[u8] = b"HloModule affine
ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  s = f32[4] multiply(x, y)
  ROOT t = f32[4] add(s, y)
}";

fn main() -> Result<(), String> {
    let client = Client::new("cpu")?;
    let session = Session::load(&client, PROGRAM)?;
    let mut result = [0f32; 4];
    session.run(&[&[1., 2., 3., 4.], &[10., 20., 30., 40.]], &mut [&mut result])?;
    assert_eq!(result, [20., 60., 120., 200.]);
    let refused = session.run(&[&[1., 2.]], &mut [&mut result]);
    println!("krafla {}: {:?}; {:?}", unsafe { CStr::from_ptr(krafla_version()) }.to_string_lossy(), result, refused);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut own = [0f32; 4];
                session.run(&[&[1.; 4], &[2.; 4]], &mut [&mut own]).unwrap();
                assert_eq!(own, [4.; 4]);
            });
        }
    });
    if refused.is_ok() { Err("a wrong size was taken".into()) } else { Ok(()) }
}
